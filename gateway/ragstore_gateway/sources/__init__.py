"""Sources of knowledge bases: websites and files that a base is kept in step with."""

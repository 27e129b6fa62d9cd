"""Knowledge bases and assistants: versioned configurations, their repository and their routes."""

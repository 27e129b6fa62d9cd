"""Operations behind the routes: write, list, search, stream."""

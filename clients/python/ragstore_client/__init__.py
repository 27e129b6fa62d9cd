"""x."""

from ragstore_client._async.client import AsyncClient
from ragstore_client._sync.client import Client

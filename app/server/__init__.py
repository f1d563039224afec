"""The server of the page: its address, who may send requests, and the API for programs."""

"""The bench: what the application costs beside calling the model directly and beside a plain relay. `make bench`."""

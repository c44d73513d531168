"""The reviewed texts of the prompt, one file a version. A turn records the version it was answered under."""

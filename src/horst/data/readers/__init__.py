"""One module per data set format: annotations and media on disk become `Annotations`."""

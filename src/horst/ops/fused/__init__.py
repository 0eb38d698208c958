"""The fast path on a GPU: Triton kernels over channels-last maps, and what is built of them."""

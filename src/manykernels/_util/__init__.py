"""What any room may use: arrays, threads, memory, words. Nothing here knows of kernels."""

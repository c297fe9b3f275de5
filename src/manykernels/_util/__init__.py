"""What any room may use: arrays, threads, memory, files, words, checks. Nothing here knows of kernels."""

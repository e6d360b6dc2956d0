"""What every room stands on and no user needs: arrays, files, kernels, threads, chance."""

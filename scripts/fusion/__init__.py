"""What a fit of the fusion is made of: samples, weights, calibration, measures."""

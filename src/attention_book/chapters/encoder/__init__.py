"""Code of the pages on pretrained encoders."""

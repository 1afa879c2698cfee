"""Code that only this book needs: its experiments, image and sentence tasks, figure panels and notebooks."""

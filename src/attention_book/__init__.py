"""Code that only this book needs: experiments, image and sentence tasks, panels and notebooks."""

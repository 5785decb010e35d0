"""What the manual needs beside Sphinx: tables made from the code, and formulas without a script."""

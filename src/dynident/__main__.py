"""`python -m dynident`: the command line, also where its script is not on the path."""

from dynident.cli import main

main()

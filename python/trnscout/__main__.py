"""`python -m trnscout` is `trnscout`."""

from .cli import main

main()

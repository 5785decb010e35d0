"""The workbench: a page on this machine that shows the record, moves the parameters, fits, judges and saves (`dynident open`)."""

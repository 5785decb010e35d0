"""The workbench: a page that shows the record, moves the parameters, fits, judges and saves (`dynident open`)."""

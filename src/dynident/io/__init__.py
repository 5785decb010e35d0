"""FILES: records in, problems in and out, results in and out."""

"""MANY RECORDS, ONE MODEL: fit them one by one, resume where a run was stopped, and find outlier machines."""

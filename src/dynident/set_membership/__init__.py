"""Set membership: which parameter values can explain the data at all, if errors never exceed their bounds?"""

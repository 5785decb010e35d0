"""Verified steps: where can a state be after a step, for every start, parameter and mode inside a box?"""

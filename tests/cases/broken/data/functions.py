"""A function that cases name wrongly."""


def score(row):
    return row

"""Lengths of questions, relative to the longest one of their batch."""


def lengths(rows, factor):
    longest = max(len(row["question"]) for row in rows)
    return [{"code": row["code"], "length": factor * len(row["question"]) / longest} for row in rows]

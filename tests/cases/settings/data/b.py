def x(rows):
    return []


def y(rows):
    return rows

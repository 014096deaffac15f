#!/usr/bin/env python3
"""Planned instants of schedules against an oracle that is written with Python's zoneinfo.

    schedules.py --bin proofmill [--years 10]

Twenty zones, several patterns each: every instant between two dates must be the same, by `schedule explain --json`. The
oracle walks over days and over the hours of the zone's clock, and knows nothing of the program's way. Exit code 1 names the
first instant that differs; 3 means that this Python has no time zones.
"""
import argparse
import datetime as dt
import json
import pathlib
import subprocess
import sys
import tempfile
import zoneinfo

ZONES = (
    "UTC", "Europe/Berlin", "Europe/London", "Europe/Lisbon", "Europe/Moscow", "Africa/Casablanca", "Africa/Cairo",
    "America/New_York", "America/St_Johns", "America/Santiago", "America/Sao_Paulo", "America/Havana", "America/Asuncion",
    "Asia/Tehran", "Asia/Amman", "Asia/Kolkata", "Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Auckland",
    "Pacific/Apia")
# Pattern; minutes, hours (None: every hour), days of the month, days of the week (Monday is 0).
PATTERNS = (
    ("30 2 * * *", [30], [2], None, None),
    ("0 0 * * *", [0], [0], None, None),
    ("15,45 0,1,2,3 * * *", [15, 45], [0, 1, 2, 3], None, None),
    ("0 3 * * SUN", [0], [3], None, [6]),
    ("30 2 1 * *", [30], [2], [1], None),
    ("*/30 * * * *", [0, 30], None, None, None))
MINUTE = dt.timedelta(minutes=1)


def first_after_gap(zone, local):
    """The first instant whose clock shows more than a local time that the zone skips."""
    at = local.replace(tzinfo=dt.timezone.utc) - dt.timedelta(hours=40)
    low, high = 0, 80 * 60
    while low < high:  # Around one gap the clock only grows.
        middle = (low + high) // 2
        shown = (at + middle * MINUTE).astimezone(zone).replace(tzinfo=None)
        low, high = (low, middle) if shown > local else (middle + 1, high)
    return at + low * MINUTE


def daily(zone, minutes, hours, days, weekdays, start, end):
    """Times of the day: each once a day."""
    found, day = set(), start.date() - dt.timedelta(days=3)
    while day <= end.date() + dt.timedelta(days=3):
        fits = (days is None or day.day in days) and (weekdays is None or day.weekday() in weekdays)
        for hour in hours if fits else ():
            for minute in minutes:
                local = dt.datetime.combine(day, dt.time(hour, minute))
                instant = local.replace(tzinfo=zone, fold=0).astimezone(dt.timezone.utc)
                if instant.astimezone(zone).replace(tzinfo=None) != local:
                    instant = first_after_gap(zone, local)
                found.add(instant)
        day += dt.timedelta(days=1)
    return sorted(instant for instant in found if start < instant <= end)


def hourly(zone, minutes, start, end):
    """Minutes of every hour: whenever the clock shows them."""
    found, instant = [], start + MINUTE
    instant -= dt.timedelta(minutes=instant.minute % 15)
    while instant <= end:
        if instant > start and instant.astimezone(zone).minute in minutes:
            found.append(instant)
        instant += dt.timedelta(minutes=15)  # All zones are whole quarters of an hour from UTC in these years.
    return found


def explained(binary, folder, pattern, zone, start, end):
    path = pathlib.Path(folder) / "s.yaml"
    path.write_text(f"kind: schedule\nname: s\npipeline: p.yaml\ncron: '{pattern}'\ntimezone: {zone}\n")
    command = [binary, "schedule", "explain", str(path), "--from", stamp(start), "--to", stamp(end), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return [dt.datetime.fromisoformat(row["planned"]) for row in json.loads(done.stdout)["instants"]]


def stamp(instant):
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--years", type=int, default=10)
    options = parser.parse_args()
    if not zoneinfo.available_timezones():
        print("this Python has no time zones: install the package tzdata", file=sys.stderr)
        return 3
    binary = str(pathlib.Path(options.bin).resolve())
    start = dt.datetime(2016, 1, 1, tzinfo=dt.timezone.utc)
    end = dt.datetime(2016 + options.years, 1, 1, tzinfo=dt.timezone.utc)
    cases = instants = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ZONES:
            zone = zoneinfo.ZoneInfo(name)
            for pattern, minutes, hours, days, weekdays in PATTERNS:
                if hours is None:
                    until = min(end, start + dt.timedelta(days=3 * 366))
                    expected = hourly(zone, minutes, start, until)
                else:
                    until = end
                    expected = daily(zone, minutes, hours, days, weekdays, start, until)
                found = explained(binary, folder, pattern, name, start, until)
                if found != expected:
                    pairs = zip(found + [None] * len(expected), expected)
                    at = next((pair for pair in pairs if pair[0] != pair[1]), (found[-1], None))
                    print(f"`{pattern}` in {name}: {at[0]}, the oracle has {at[1]}", file=sys.stderr)
                    return 1
                cases, instants = cases + 1, instants + len(found)
    print(f"{cases} calendars, {instants} instants: as the oracle has them")
    return 0


if __name__ == "__main__":
    sys.exit(main())

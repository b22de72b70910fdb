"""Pushes, pops and acks in SQL, in transactions of its own, by a driver of another language.

Usage: sql_client.py postgres://USER@HOST:PORT/DATABASE
"""

import sys
import time
from urllib.parse import urlparse

import pg8000.native

checks = 0


def check(holds, what):
    global checks
    if not holds:
        sys.exit(f"not so: {what}")
    checks += 1


place = urlparse(sys.argv[1])
db = pg8000.native.Connection(
    place.username, host=place.hostname, port=place.port, database=place.path[1:]
)
POP = "SELECT partition_id, transaction_id, lease_token, payload FROM wakeline.pop('py', 10)"
ACK = "SELECT wakeline.ack(:partition, :txn, :lease, p_status => :status, p_error => :error)"


def pop():
    return db.run(POP)


def ack(row, status="completed", error=None):
    db.run(ACK, partition=row[0], txn=row[1], lease=row[2], status=status, error=error)


def popped(count):
    """A node takes pushes over after their commit: a moment later."""
    for _ in range(200):
        rows = pop()
        if rows:
            check(len(rows) == count, f"{count} were popped, not {len(rows)}")
            return rows
        time.sleep(0.05)
    sys.exit("nothing came")


db.run("CREATE TEMPORARY TABLE done (id bigint PRIMARY KEY)")
db.run("BEGIN")
for number in (1, 2):
    db.run("SELECT wakeline.push('py', json_build_object('id', :id::int))", id=number)
db.run("ROLLBACK")
db.run("BEGIN")
for number in (3, 4):
    db.run("SELECT wakeline.push('py', json_build_object('id', :id::int))", id=number)
db.run("COMMIT")

rows = popped(2)
check([row[3]["id"] for row in rows] == [3, 4], "what was rolled back was never pushed")
check(pop() == [], "what is leased is not popped again")
db.run("BEGIN")
db.run("INSERT INTO done VALUES (:id)", id=rows[0][3]["id"])
ack(rows[0])
db.run("COMMIT")
ack(rows[1], "failed", "from Python")
rows = popped(1)
check(rows[0][3]["id"] == 4, "what failed comes again")

try:
    db.run("BEGIN")
    db.run("INSERT INTO done VALUES (99)")
    ack([rows[0][0], "another", rows[0][2]])
    sys.exit("an ack of what the lease does not hold must fail")
except pg8000.exceptions.DatabaseError as error:
    check(error.args[0]["C"] == "P0002", "it says why")
    db.run("ROLLBACK")
ack(rows[0], "dlq", "given up")
check(db.run("SELECT id FROM done") == [[3]], "done exactly once, and nothing else")
dead = db.run("SELECT payload, error FROM wakeline.dead_letter_messages WHERE queue = 'py'")
check(dead == [[{"id": 4}, "given up"]], "the view shows it")
lag = db.run("SELECT lag FROM wakeline.consumer_groups WHERE queue = 'py'")
check(lag == [[0]], "nothing is left")
print(f"all {checks} checks hold")

"""Pushes, pops and acks in SQL within its own transactions, with a driver of another language.

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
        sys.exit(f"check failed: {what}")
    checks += 1


url = urlparse(sys.argv[1])
db = pg8000.native.Connection(
    url.username, host=url.hostname, port=url.port, database=url.path[1:]
)
POP = "SELECT partition_id, transaction_id, lease_token, payload FROM wakeline.pop('py', 10)"
ACK = "SELECT wakeline.ack(:partition, :txn, :lease, p_status => :status, p_error => :error)"


def pop():
    return db.run(POP)


def ack(row, status="completed", error=None):
    db.run(ACK, partition=row[0], txn=row[1], lease=row[2], status=status, error=error)


def popped(count):
    """Pops until there are messages: a node moves pushed rows to the queue shortly after their commit."""
    for _ in range(200):
        rows = pop()
        if rows:
            check(len(rows) == count, f"{count} were popped, not {len(rows)}")
            return rows
        time.sleep(0.05)
    sys.exit("no message arrived")


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
check([row[3]["id"] for row in rows] == [3, 4], "rolled back pushes have no effect")
check(pop() == [], "leased messages are not popped again")
db.run("BEGIN")
db.run("INSERT INTO done VALUES (:id)", id=rows[0][3]["id"])
ack(rows[0])
db.run("COMMIT")
ack(rows[1], "failed", "from Python")
rows = popped(1)
check(rows[0][3]["id"] == 4, "a failed message is delivered again")

try:
    db.run("BEGIN")
    db.run("INSERT INTO done VALUES (99)")
    ack([rows[0][0], "another", rows[0][2]])
    sys.exit("an ack of a message that the lease does not include must fail")
except pg8000.exceptions.DatabaseError as error:
    check(error.args[0]["C"] == "P0002", "the error has the right SQLSTATE")
    db.run("ROLLBACK")
ack(rows[0], "dlq", "rejected")
check(db.run("SELECT id FROM done") == [[3]], "each message is processed exactly once")
dead = db.run("SELECT payload, error FROM wakeline.dead_letter_messages WHERE queue = 'py'")
check(dead == [[{"id": 4}, "rejected"]], "the view shows the dead letter")
lag = db.run("SELECT lag FROM wakeline.consumer_groups WHERE queue = 'py'")
check(lag == [[0]], "no message is left")
print(f"all {checks} checks hold")

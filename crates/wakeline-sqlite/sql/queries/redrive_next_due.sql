-- When the next redrive is due.
SELECT min(due_at) FROM redrives WHERE state = 0

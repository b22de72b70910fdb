-- When a job is due. Called by: redrive::next_due.
SELECT min(due_at) FROM redrives WHERE state = 0

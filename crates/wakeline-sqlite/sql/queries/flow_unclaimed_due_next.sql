-- The next tag, name and taker with activities that are leased or delayed. Uses the index work_due.
SELECT tag_id, name_id, taker FROM work INDEXED BY work_due
WHERE due_at IS NOT NULL AND (tag_id, name_id, taker) > (?1, ?2, ?3)
ORDER BY tag_id, name_id, taker LIMIT 1

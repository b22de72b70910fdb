-- The next tag, name and taker with activities that can be claimed. Uses the index work_ready.
SELECT tag_id, name_id, taker FROM work INDEXED BY work_ready
WHERE due_at IS NULL AND (tag_id, name_id, taker) > (?1, ?2, ?3)
ORDER BY tag_id, name_id, taker LIMIT 1

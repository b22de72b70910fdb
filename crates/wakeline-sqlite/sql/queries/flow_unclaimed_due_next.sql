-- The next tag, name and kind of taker of which there is work that is leased or waits for its time.
-- Called by: unclaimed::all. Walks work_due.
SELECT tag_id, name_id, taker FROM work INDEXED BY work_due
WHERE due_at IS NOT NULL AND (tag_id, name_id, taker) > (?1, ?2, ?3)
ORDER BY tag_id, name_id, taker LIMIT 1

-- Removes up to ?8 dead letters, of all queues or of one (?1). ?2 to ?7 filter by group, partition,
-- number, time from, time before, and text in the error.
DELETE FROM dead_letters WHERE dead_letter_id IN (
    SELECT d.dead_letter_id
    FROM dead_letters d CROSS JOIN partitions p ON p.partition_id = d.partition_id
    WHERE (?1 IS NULL OR d.queue_id = ?1) AND (?2 IS NULL OR d.group_name = ?2) AND (?3 IS NULL OR p.name = ?3)
    AND (?4 IS NULL OR d.dead_letter_id = ?4) AND (?5 IS NULL OR d.failed_at >= ?5)
    AND (?6 IS NULL OR d.failed_at < ?6) AND (?7 IS NULL OR instr(d.error, ?7) > 0)
    LIMIT ?8)

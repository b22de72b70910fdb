-- Ids under which messages may wait and that were never started, behind ?2. Walks lanes_early.
-- Nobody takes a single message out of such a lane, so that its next place says how many there are.
-- Called by: mailbox::early.
SELECT l.instance,
       l.next_seq - 1 AS messages,
       (SELECT min(m.visible_at) FROM lane_messages m WHERE m.lane_id = l.lane_id) AS oldest_at
FROM lanes l INDEXED BY lanes_early
WHERE l.capability_id IS NULL AND l.next_seq > 1 AND l.instance > ?2
  AND (?1 IS NULL OR substr(l.instance, 1, length(?1)) = ?1)
  AND EXISTS (SELECT 1 FROM lane_messages m WHERE m.lane_id = l.lane_id)
ORDER BY l.instance LIMIT ?3

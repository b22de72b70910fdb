-- Instance ids that were never started and have waiting messages, after ?2. Uses the index
-- lanes_early. No single message is ever removed from such a lane, so its next sequence number
-- gives the number of messages.
SELECT l.instance,
       l.next_seq - 1 AS messages,
       (SELECT min(m.visible_at) FROM lane_messages m WHERE m.lane_id = l.lane_id) AS oldest_at
FROM lanes l INDEXED BY lanes_early
WHERE l.capability_id IS NULL AND l.next_seq > 1 AND l.instance > ?2
  AND (?1 IS NULL OR substr(l.instance, 1, length(?1)) = ?1)
  AND EXISTS (SELECT 1 FROM lane_messages m WHERE m.lane_id = l.lane_id)
ORDER BY l.instance LIMIT ?3

-- The routes of the activities that a taker may claim.
SELECT DISTINCT tag_id, name_id FROM work WHERE taker = ?1

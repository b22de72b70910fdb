-- The routes of the activities that a kind of taker may take.
-- Called by: session::end.
SELECT DISTINCT tag_id, name_id FROM work WHERE taker = ?1

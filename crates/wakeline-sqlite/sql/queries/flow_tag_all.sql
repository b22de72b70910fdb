-- The numbers of all tags.
-- Called by: names::tags.
SELECT tag_id FROM tags

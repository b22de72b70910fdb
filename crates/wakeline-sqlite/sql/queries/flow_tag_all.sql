-- The numbers of all tags.
SELECT tag_id FROM tags

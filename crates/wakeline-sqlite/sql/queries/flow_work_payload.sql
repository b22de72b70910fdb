-- The payload of an activity.
SELECT payload FROM work WHERE work_id = ?1

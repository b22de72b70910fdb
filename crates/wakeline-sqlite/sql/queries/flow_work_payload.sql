-- What the runtime put into an activity.
-- Called by: line::item.
SELECT payload FROM work WHERE work_id = ?1

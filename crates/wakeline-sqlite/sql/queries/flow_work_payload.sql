-- What the runtime put into an activity.
-- Called by: work::item.
SELECT payload FROM work WHERE work_id = ?1

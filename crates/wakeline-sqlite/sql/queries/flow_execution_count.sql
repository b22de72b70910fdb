-- How many executions an instance has, and how many events they have.
-- Called by: delete::remove.
SELECT count(*), coalesce(sum(last_event), 0) FROM executions WHERE lane_id = ?1

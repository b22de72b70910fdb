-- Switches an endpoint off that is gone or does nothing but fail. That is no change by its owner: its version stays.
-- Called by: settle::disable.
UPDATE hook_endpoints SET disabled = ?2 WHERE endpoint_no = ?1

-- Changes when another connection has committed since this one last looked.
-- Called by: Cache::validate, inside the write transaction.
PRAGMA data_version

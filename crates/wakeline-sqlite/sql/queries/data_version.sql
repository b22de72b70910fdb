-- A number that changes when another connection has committed since this connection last read it.
PRAGMA data_version

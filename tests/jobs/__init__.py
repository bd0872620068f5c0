"""What every store of jobs has to do, as a machine that does anything in any order."""

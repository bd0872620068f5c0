"""What workers record of a day: when tasks came, waited and ran, for a simulation to replay."""

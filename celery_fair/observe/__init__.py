"""What there is to see: facts collected once in each worker, and the views that draw on them."""

"""Pictures of predictions: pages and charts without anything to install."""

"""Speed figures, each as a ratio to something that everybody has, measured side by side in one run.
`make bench`; pytest does not collect it.
"""

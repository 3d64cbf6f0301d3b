"""What would mend a finding: edits of the source text, worked out from what the analyzer knows of the place.

``replay`` runs the path of a finding again and looks what the places around can name, ``places`` says where
a line may be put, ``words`` what it says in each library, and ``plans`` what a kind of finding calls for.
"""
